"""What is run at the scale of the E2FL paper."""
