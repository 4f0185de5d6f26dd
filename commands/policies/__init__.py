"""Policies of streams and groups: their settings, and how their lines are applied."""
