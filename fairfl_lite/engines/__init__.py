"""What trains and differentiates."""
