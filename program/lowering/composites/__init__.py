"""What all frameworks share: operators that are built of several primitives."""
