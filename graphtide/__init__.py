"""The front door: settings, pipelines, live watch and the command."""

__version__ = "0.1.0"
