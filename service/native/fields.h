/* Kinds of fields: how the values of a name are read. Source: riata/wire/fields.py */
#ifndef RIATA_FIELDS_H
#define RIATA_FIELDS_H
#include "riata.h"

enum { FIELD_UNKNOWN, FIELD_NUMBER, FIELD_CATEGORY, FIELD_BOOLEAN, FIELD_TIME, FIELD_UNIX_S, FIELD_UNIX_MS, FIELD_LIST, FIELD_TEXT };
enum { FIELD_KIND = 15, FIELD_SHIFT = 16, FIELD_CONTRARY = 0, FIELD_UNREADABLE = 1 };

/* The place of a field in `table`, or that of the first empty one of its run. */
static inline u64 field_place(const u64 *table, u64 field) {
    u64 mask = table[0], i = field >> FIELD_SHIFT & mask;
    while (table[1 + i] != 0 && (table[1 + i] | FIELD_KIND) != (field | FIELD_KIND))
        i = (i + 1) & mask;
    return i;
}

/* The kind of a field by its hash H(key, NUMBER, name). The table is replaced, and never made shorter, while it is read. */
static inline int field_kind(const riata_fields *fields, u64 field) {
    if (!fields)
        return FIELD_UNKNOWN;
    const u64 *table = __atomic_load_n(&fields->table, __ATOMIC_ACQUIRE);
    return (int)(table[1 + field_place(table, field)] & FIELD_KIND);
}

/* The kinds for the line that begins `at` bytes into a body. *owner is 0 before the first line, and is the model of the last one. */
static inline const riata_fields *kinds_for(const riata_rules *rules, i64 at, i64 *owner) {
    if (!rules->kinds_of)
        return rules->kinds;
    while (at >= rules->stop_of[*owner])
        ++*owner;
    return (const riata_fields *)(uintptr_t)rules->kinds_of[*owner];
}

/* Count a value of a field whose form contradicts the kind, or which cannot be read as one. */
static inline void count_odd(const riata_fields *fields, u64 field, int which) {
    u64 *table = (u64 *)__atomic_load_n(&fields->table, __ATOMIC_ACQUIRE);
    __atomic_fetch_add(table + 2 + table[0] + 2 * field_place(table, field) + (u64)which, 1, __ATOMIC_RELAXED);
}

#endif
