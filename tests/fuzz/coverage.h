/* What gcc calls at each branch with -fsanitize-coverage=trace-pc: counts it, for libFuzzer (tests/fuzz/run.py). */
enum { RIATA_COUNTERS = 1 << 16 };
__attribute__((weak, visibility("default"))) unsigned char riata_counters[RIATA_COUNTERS];

__attribute__((weak, visibility("hidden"), no_sanitize_coverage, no_sanitize("address", "undefined"))) void
__sanitizer_cov_trace_pc(void) {
    unsigned long at = (unsigned long)__builtin_return_address(0);
    riata_counters[(at * 0x9E3779B97F4A7C15ul) >> 48]++;
}
