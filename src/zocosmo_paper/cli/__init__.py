"""Commands that the paper's rerun adds to `zocosmo`."""
