"""The inspector's data, and its forms as HTML and text."""
