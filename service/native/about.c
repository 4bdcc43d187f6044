/* What the binding asks before it trusts the library. */
#include "riata.h"

EXPORT const char *riata_sources(void) { return RIATA_SOURCES; } /* defined by the build */

EXPORT i64 riata_size(i64 number) {
    static const i64 SIZES[] = {sizeof(riata_text), sizeof(riata_records), sizeof(riata_sink),
                                sizeof(riata_rules), sizeof(riata_weights), sizeof(riata_answer)};
    return number >= 0 && number < (i64)(sizeof SIZES / sizeof *SIZES) ? SIZES[number] : -1;
}
