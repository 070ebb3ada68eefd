"""What is run at the scale of the FAIR-FATE paper."""
