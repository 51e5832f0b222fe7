"""What the hardware could do at most, and what launches whose work is known reached of it."""
