/* Fields met in the log: which names are those of a number, of a category, or of neither. Source: riata/wire/fields.py */
#include "fields.h"
#include "names.h"
#include "text.h"

enum { SHOWN_MAX = 3 * NAME_BYTES_MAX, SPLITS_MAX = 8, AROUND = 8 };

/* What was found about a name: its first `size` bytes are a field of this kind. */
typedef struct {
    u64 field;
    i64 size;
    int kind;
} found_field;

/* Whether a text says that there is no value: one of `ABSENT` of riata/wire/given.py. */
static bool says_nothing(const u8 *p, const u8 *stop) {
    static const char *const WORDS[] = {"", "na", "n/a", "<na>", "#n/a", "#div/0!", "nan", "null", "none", "-", "?", "\\n", "nat"};
    u8 lower[8];
    if (stop - p >= (i64)sizeof lower)
        return false;
    for (i64 i = 0; i < stop - p; i++)
        lower[i] = (u8)((u8)(p[i] - 'A') < 26 ? p[i] + 32 : p[i]);
    for (size_t k = 0; k < sizeof WORDS / sizeof *WORDS; k++)
        if (strlen(WORDS[k]) == (size_t)(stop - p) && memcmp(lower, WORDS[k], (size_t)(stop - p)) == 0)
            return true;
    return false;
}

/* The field of the name start:stop of a model or namespace with this key, whose value follows behind `between`; kind FIELD_UNKNOWN if
 * there is none. */
static found_field field_in(const u8 *start, const u8 *stop, u64 key, u8 between, u64 fingerprint) {
    if (hash_name(start, stop - start, key, NUMBER) == fingerprint)
        return (found_field){fingerprint, stop - start, FIELD_NUMBER};
    const u8 *p = start;
    for (int split = 0; split < SPLITS_MAX && (p = memchr(p, between, (size_t)(stop - p))); split++, p++)
        if (hash_name(p + 1, stop - p - 1, hash_name(start, p - start, key, FIELD_EQUALS), NUMBER) == fingerprint)
            return (found_field){hash_name(start, p - start, key, NUMBER), p - start,
                                 says_nothing(p + 1, stop) ? FIELD_UNKNOWN : FIELD_CATEGORY};
    return (found_field){0, 0, FIELD_UNKNOWN};
}

static found_field field_of(const u8 *start, const u8 *stop, u64 key, u64 fingerprint) {
    found_field found = field_in(start, stop, key, '=', fingerprint);
    const u8 *p = start;
    for (int split = 0; split < SPLITS_MAX && found.kind == FIELD_UNKNOWN && (p = memchr(p, '^', (size_t)(stop - p))); split++, p++) {
        found = field_in(p + 1, stop, hash_name(start, p - start, key, FIELD_NAMESPACE), ':', fingerprint);
        found.size += p + 1 - start;
    }
    return found;
}

/* Enter fields as riata_meet_fields does, and add those entered to `found`, *count of them. */
static i64 meet(const u8 *names, i64 from, riata_fields *fields, u64 *found, i64 *count) {
    u8 name[AROUND + SHOWN_MAX + AROUND]; /* bytes around a name are read when it is hashed */
    u64 *table = (u64 *)fields->table;
    name_list given = names_of(names);
    i64 i = 0;
    memset(name, 0, AROUND);
    for (; i < from; i++)
        given.text += length_of(&given, i);
    for (; i < given.n; given.text += length_of(&given, i++)) {
        u32 length = length_of(&given, i);
        if (length > SHOWN_MAX)
            continue;
        memcpy(name + AROUND, given.text, length);
        memset(name + AROUND + length, 0, AROUND);
        found_field one = field_of(name + AROUND, name + AROUND + length, fields->key, fingerprint_of(&given, i));
        u64 place = field_place(table, one.field), field = (one.field & ~(u64)FIELD_KIND) | (u64)one.kind;
        if (one.kind == FIELD_UNKNOWN || table[1 + place] != 0)
            continue;
        if (fields->room <= 0)
            break;
        u64 *told = found + 3 * (*count)++;
        told[0] = (u64)(given.text - names), told[1] = (u64)one.size, told[2] = field;
        fields->room--;
        fields->others |= one.kind > FIELD_NUMBER;
        __atomic_store_n(table + 1 + place, field, __ATOMIC_RELEASE);
    }
    return i;
}

EXPORT i64 riata_meet_fields(const u8 *names, i64 from, riata_fields *fields, u64 *found) {
    i64 count = 0, at = meet(names, from, fields, found + 1, &count);
    found[0] = (u64)count;
    return at;
}

EXPORT void riata_meet_of_each(const u8 *names, const i64 *end, const u64 *fields, i64 models, u64 *found, i64 *met, u8 *is_full) {
    i64 count = 0;
    for (i64 k = 0; k < models; k++) {
        const u8 *own = names + (k ? end[k - 1] : 0);
        riata_fields *into = (riata_fields *)(uintptr_t)fields[k];
        is_full[k] = into && into->room >= 0 && meet(own, 0, into, found, &count) < names_of(own).n;
        met[k] = count;
    }
}

EXPORT void riata_move_fields(const u64 *old, u64 *table) {
    const u64 *counts = old + 2 + old[0];
    for (u64 at = 0; at <= old[0]; at++) {
        if (old[1 + at] == 0)
            continue;
        u64 place = field_place(table, old[1 + at] & ~(u64)FIELD_KIND);
        table[1 + place] = old[1 + at];
        memcpy(table + 2 + table[0] + 2 * place, counts + 2 * at, 2 * sizeof *counts);
    }
}
