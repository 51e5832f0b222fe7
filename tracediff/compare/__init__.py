"""compare: two sides of reduced runs -> the result."""
