"""What both dumps recorded beside values: settings, arguments, draws, options, rates."""
