"""What differs between two compilations."""
