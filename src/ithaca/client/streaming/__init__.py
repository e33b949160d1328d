"""Subscriptions whose servers push: `connection` is the one that a stream has at a time, `delivered` what comes."""
