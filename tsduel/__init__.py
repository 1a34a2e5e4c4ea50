"""tsduel: run two versions of a time-series database under the same TSBS load and compare them."""

__version__ = "0.1.0"
