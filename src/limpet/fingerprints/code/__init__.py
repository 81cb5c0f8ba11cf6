"""What code does, independent of its layout: from syntax, or from bytecode without source."""
