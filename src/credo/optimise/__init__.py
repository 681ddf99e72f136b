"""What everything that takes steps stands on: runs with a clock and signals, and the one driver."""
