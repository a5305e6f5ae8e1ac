"""Runnable examples; an installed brokerjobs has them as `brokerjobs.examples`."""
