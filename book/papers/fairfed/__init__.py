"""What is run at the scale of the FairFed paper."""
