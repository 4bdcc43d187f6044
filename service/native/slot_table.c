/* The map from slots to lines, and lists of slots: which lines are not empty, so that no code has to scan a table. */
#include <math.h>
#include <string.h>

#include "table.h"

enum { PROBES_MAX = 64 }; /* a map at most half full needs one or two, unless its names were chosen to collide */
enum { SLOTS_AHEAD = 16 };
enum { RUN = 8 };         /* slots that are moved at once if no new slot goes between them */

/* The same with an index, which takes every slot. */
static i64 enter_index(riata_slot_map *map, const u32 *hash, i64 n, i64 at, i64 shift, i64 up, u32 *out) {
    for (i64 p = at; p < n; p++) {
        if (p + SLOTS_AHEAD < n)
            __builtin_prefetch(map->index + (hash[p + SLOTS_AHEAD] >> shift));
        u32 slot = hash[p] >> shift, line = map->index[slot];
        if (line == 0) {
            map->slot_of[map->used++] = slot;
            map->index[slot] = line = (u32)map->used;
        }
        out[p] = (line - 1) << up;
    }
    return n;
}

EXPORT i64 riata_enter_slots(riata_slot_map *map, const u32 *hash, i64 n, i64 at, i64 shift, i64 up, u32 *out) {
    if (map->index != NULL)
        return enter_index(map, hash, n, at, shift, up, out);
    i64 mask = map->entries - 1;
    for (i64 p = at; p < n; p++) {
        if (p + SLOTS_AHEAD < n)
            __builtin_prefetch(map->entry + place_of(map, hash[p + SLOTS_AHEAD] >> shift));
        i64 slot = hash[p] >> shift, i = place_of(map, slot);
        for (i64 probes = 0; map->entry[i] >> HASH_BITS != slot + 1;) {
            if (map->entry[i] == 0) {
                if (map->used == map->most)
                    return p;
                map->entry[i] = (slot + 1) << HASH_BITS | map->used;
                map->slot_of[map->used++] = (u32)slot;
            } else {
                i = (i + 1) & mask;
                if (++probes == PROBES_MAX)
                    return p;
            }
        }
        out[p] = (u32)map->entry[i] << up;
    }
    return n;
}

EXPORT void riata_merge_tail(u32 *slot, i64 n, const u32 *tail, i64 tails) {
    i64 to = n - 1, left = to - tails, right = tails - 1;
    while (left >= 0 && right >= 0) { /* from the back, where there is space */
        u32 new = tail[right];
        if (left >= RUN && slot[left - RUN] > new) { /* usual if the tail is short, so the branch is predictable */
            memmove(slot + to - RUN + 1, slot + left - RUN + 1, RUN * sizeof *slot);
            to -= RUN;
            left -= RUN;
            continue;
        }
        u32 old = slot[left]; /* no branch selects one of the two, as it would be unpredictable */
        bool is_old = old > new;
        slot[to--] = is_old ? old : new;
        left -= is_old;
        right -= !is_old;
    }
    memcpy(slot, tail, (size_t)(right + 1) * sizeof *slot); /* all that is left goes to the beginning */
}

EXPORT i64 riata_prune_slots(const double *line, i64 width, i64 column, double floor, u32 *slot, i64 n) {
    i64 kept = 0;
    for (i64 p = 0; p < n; p++) {
        __builtin_prefetch(line + slot[p + AHEAD < n ? p + AHEAD : n - 1] * width);
        u32 at = slot[p];
        bool again = p + 1 < n && slot[p + 1] == at;
        slot[kept] = at; /* which slots stay is unpredictable: each is written, and the next one may overwrite it */
        kept += (fabs(line[at * width + column]) > floor) & !again;
    }
    return kept;
}

EXPORT void riata_pick_columns(const double *line, i64 width, const u32 *slot, i64 n, i64 column, double *left, double *right) {
    for (i64 p = 0; p < n; p++) {
        __builtin_prefetch(line + slot[p + AHEAD < n ? p + AHEAD : n - 1] * width);
        left[p] = line[slot[p] * width + column];
        right[p] = line[slot[p] * width + column + 1];
    }
}
