"""What is run at the scale of the RankFF paper."""
