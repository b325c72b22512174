"""Mappers of earlier work, in fusiest's mapspace and over its tables of pmappings, to compare with."""
