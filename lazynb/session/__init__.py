"""What a session did: reports on its runs, not on one compilation."""
