"""The commit that caused a change: git bisect asks, paired captures answer."""
