"""Tests; they mirror the packages, and ``interop`` and ``faults`` test the running broker from outside."""
