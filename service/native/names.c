/* Names: the table of those seen, and those of a request as they are shown (riata/wire/names.py). */
#include "names.h"

#include <string.h>

static const char TIMES[] = " \u00d7 "; /* between the parts of a combination */
enum { TIMES_SIZE = sizeof TIMES - 1 };
static const char BETWEEN[SHOWN + 1] = {[EQUALS] = '=', [WORD] = ':', [NAMESPACE] = '^'};

EXPORT i64 riata_lacks(const u64 *table, i64 size, u64 fingerprint) { return lacks(table, size, fingerprint); }

EXPORT i64 riata_enter(u64 *table, i64 size, const u64 *fingerprints, i64 n, i64 room, u8 *fresh, i64 *dropped) {
    i64 kept = 0;
    for (i64 i = 0; i < n; i++) {
        u64 wanted = fingerprints[i] ? fingerprints[i] : 1;
        i64 at = place_of(table, size, wanted);
        fresh[i] = at >= 0 && table[at] == 0 && kept < room;
        if (fresh[i]) {
            table[at] = wanted;
            kept++;
        } else {
            *dropped += kept < room ? at < 0 : at >= 0 && table[at] == 0;
        }
    }
    return kept;
}

EXPORT i64 riata_first_found(const u64 *fingerprints, const u8 *kinds, i64 n, u32 *table, i64 size, i64 *first) {
    i64 count = 0;
    for (i64 i = 0; i < n; i++) {
        if (kinds[i] & PART)
            continue;
        u64 at = fingerprints[i] & (u64)(size - 1);
        for (int step = 0; step < PROBE_MAX; step++, at = (at + 1) & (u64)(size - 1)) {
            if (table[at] == 0) {
                table[at] = (u32)(i + 1);
                first[count++] = i;
                break;
            }
            if (fingerprints[table[at] - 1] == fingerprints[i])
                break;
        }
    }
    return count;
}

/* Copy a part of a name to text[at:], unless `text` is NULL. Returns where it ends. */
static i64 put_bytes(const u8 *from, i64 size, u8 *text, i64 at) {
    if (text)
        memcpy(text + at, from, (size_t)size);
    return at + size;
}

/* The same with the name of a record that is no combination. */
static i64 put_name(const riata_shown *names, i64 i, u8 *text, i64 at) {
    const i64 *span = names->span + 4 * i;
    int shown = names->kind[i] & SHOWN;
    if (span[0] < 0) {
        const i64 *ends = names->slow_end + span[1];
        return put_bytes(names->slow + ends[0], ends[1] - ends[0], text, at);
    }
    if (shown != PLAIN) {
        at = put_bytes(names->data + span[0], span[1] - span[0], text, at);
        at = put_bytes((const u8 *)BETWEEN + shown, 1, text, at);
    }
    return put_bytes(names->data + span[2], span[3] - span[2], text, at);
}

EXPORT i64 riata_show_names(const riata_shown *names, const i64 *chosen, i64 n, u32 *lengths, u8 *text) {
    i64 at = 0;
    for (i64 k = 0; k < n; k++) {
        i64 i = chosen[k], start = at;
        if (names->kind[i] & CROSSED) {
            const i64 *part = names->span + 4 * i;
            for (int p = 0; p < PARTS_MAX; p++) {
                if (part[p] < 0)
                    continue;
                if (p > 0)
                    at = put_bytes((const u8 *)TIMES, TIMES_SIZE, text, at);
                at = put_name(names, part[p], text, at);
            }
        } else {
            at = put_name(names, i, text, at);
        }
        lengths[k] = (u32)(at - start);
    }
    return at;
}
