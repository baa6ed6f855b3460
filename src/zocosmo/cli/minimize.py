"""zocosmo minimize: a black box behind a command line."""
