"""How often verdict, module and cause are right on one corpus, held against a baseline."""
