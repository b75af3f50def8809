"""What became of every recorded operation."""
