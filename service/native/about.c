/* What the binding asks before it trusts the library. */
#include "riata.h"
#include "sizes.h"

EXPORT const char *riata_sources(void) { return RIATA_SOURCES; } /* defined by the build, as RIATA_SIZES is */

EXPORT i64 riata_size(i64 number) {
    static const i64 SIZES[] = {RIATA_SIZES};
    return number >= 0 && number < (i64)(sizeof SIZES / sizeof *SIZES) ? SIZES[number] : -1;
}
