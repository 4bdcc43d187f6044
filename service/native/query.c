/* The query of a prediction, `name=value&...`, to records. Source: the HTTP contract; application/x-www-form-urlencoded in the URL
 * standard: `+` is a space, `%XX` a byte, any other `%` itself. */
#include "query.h"

#include "hash.h"
#include "numbers.h"
#include "unicode.h"

static i64 hex_digit(u8 c) {
    if (is_digit(c))
        return c - '0';
    u8 letter = (u8)((c | 32) - 'a');
    return letter < 6 ? letter + 10 : -1;
}

/* Decode a name, which an equals sign ends, or a value; an ampersand ends both. Writes to *at, which moves behind it. Returns the byte
 * that ended it, NULL if there is one that cannot be in a query. */
static const u8 *decode_part(const u8 *p, const u8 *stop, bool name, u8 **at) {
    while (p < stop && *p != '&' && !(name && *p == '=')) {
        u8 c = *p++;
        if (c < '!' || c > '~' || c == '#')
            return NULL;
        if (c == '+') {
            c = ' ';
        } else if (c == '%' && p + 1 < stop) {
            i64 high = hex_digit(p[0]), low = hex_digit(p[1]);
            if (high >= 0 && low >= 0) {
                c = (u8)(high << 4 | low);
                p += 2;
            }
        }
        *(*at)++ = c;
    }
    return p;
}

static void put(riata_records *row, i64 n, u64 fingerprint, double value, int kind) {
    row->fingerprint[n] = fingerprint, row->value[n] = value, row->kind[n] = (u8)kind;
}

i64 read_query(u8 *query, i64 size, riata_records *row, const riata_rules *rules) {
    const u8 *stop = query + size;
    u8 *at = query + size + 1;
    i64 n = 0;
    row->sorted = 0;
    for (const u8 *p = query; p < stop; p++) {
        if (*p == '&')
            continue;
        u8 *start = at;
        p = decode_part(p, stop, true, &at);
        u8 *middle = at;
        if (p && p < stop && *p == '=')
            p = decode_part(p + 1, stop, false, &at);
        if (!p || middle == start || *start == '_' || n + 2 > row->capacity || name_code(start, middle) != OK)
            return -1;
        u64 name = hash_name(start, middle - start, rules->key, NUMBER);
        double number = 0.0;
        int status = EXACT;
        *at = '\n'; /* no byte of a number */
        if (read_number(middle, at, true, &number, &status) == at && at > middle) {
            if (status != EXACT)
                return -1;
            put(row, n++, name, number, PLAIN | KEY);
            continue;
        }
        if (rules->texts > 0 || name_code(middle, at) != OK)
            return -1;
        put(row, n++, name, 0.0, PLAIN | KEY | SHADOWED);
        u64 field = hash_name(start, middle - start, rules->key, FIELD_EQUALS);
        put(row, n++, hash_name(middle, at - middle, field, NUMBER), 1.0, EQUALS);
    }
    return n;
}

bool join_lists(riata_records *row, i64 n) {
    bool found = false;
    for (i64 i = 0; i < n; i++)
        for (i64 k = 0; k < i; k++)
            if (row->kind[i] == (PLAIN | KEY | SHADOWED) && row->kind[k] == row->kind[i] &&
                row->fingerprint[i] == row->fingerprint[k]) {
                row->kind[i] = PLAIN | SHADOWED;
                found = true;
            }
    return found;
}
