"""comparison: two sides of reduced runs -> the result."""
