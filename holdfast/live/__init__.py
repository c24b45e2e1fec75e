"""What running attempts say, while they say it."""
