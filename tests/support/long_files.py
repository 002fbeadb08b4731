"""Which files of tests take longest."""

LONG = (
    "frameworks/test_pages", "e2e/test_ops", "frameworks/test_notebooks", "e2e/test_planted_faults",
    "frameworks/test_feed_faults", "frameworks/test_onnx", "frameworks/test_edits_of_shapes",
    "frameworks/test_program_paddle_models", "frameworks/test_logical",
    "frameworks/test_fused_ports", "frameworks/test_real_cnns", "frameworks/test_ranks",
    "frameworks/test_benchmarks", "reliability/test_determinism", "reliability/test_hostile",
    "frameworks/test_trained_decoders", "frameworks/test_executed_updates",
    "property/test_pairing_trees", "frameworks/test_training", "reliability/test_places",
    "e2e/test_scheduler", "e2e/test_stores", "e2e/test_page", "frameworks/test_script_ranks",
    "frameworks/test_localisation", "e2e/test_ssh_store", "frameworks/test_drift",
    "frameworks/test_operators", "frameworks/test_page_programs", "e2e/test_parts",
    "unit/pairing/test_extremes", "frameworks/test_locate", "reliability/test_fuzz",
    "frameworks/test_dying_steps", "frameworks/test_compare_models", "frameworks/test_sharded",
    "frameworks/test_update_programs", "reliability/test_deep_trees", "frameworks/test_audit_clean",
    "frameworks/test_adapter_suite", "reliability/test_forked", "e2e/test_dump_script",
    "frameworks/test_forms_for_causes", "frameworks/test_dropped_inside", "frameworks/test_feed",
    "e2e/test_dump", "frameworks/test_met_in_ports", "frameworks/test_audit_pieces",
    "e2e/test_main_job", "frameworks/test_construction", "frameworks/test_executed",
    "frameworks/test_ending", "architecture/test_packages",
)  # fmt: skip
"""Files that take longest, in about this order; workers begin with them, lest one is left over."""
