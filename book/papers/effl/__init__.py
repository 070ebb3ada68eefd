"""What is run at the scale of the EFFL paper."""
