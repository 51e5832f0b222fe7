"""Tests of the builders of captures."""
