/* The map from slots to lines, and lists of slots: which lines are not empty, so that no code has to scan a table. */
#include <math.h>
#include <string.h>

#include "table.h"

enum { PROBES_MAX = 128 }; /* a segment at most half full needs a few, unless its names were chosen to collide */
enum { RUN = 8 }; /* slots that are moved at once if no new slot goes between them */

static bool is_whole(const riata_slot_map *map) { return map->low == map->last && map->split > map->last; }

/* Split the next segment: spread its slots over itself and a new one, or, if there are no more, make it an array of its slots. */
static void split_next(riata_slot_map *map) {
    i64 old[SEGMENT], *entry = map->entry + map->split * SEGMENT;
    memcpy(old, entry, sizeof old);
    memset(entry, 0, sizeof old);
    map->split++;
    for (i64 p = 0; p < SEGMENT; p++) {
        if (old[p] == 0)
            continue;
        i64 slot = (old[p] >> HASH_BITS) - 1;
        if (is_direct(map, slot)) {
            *direct_entry(map, slot) = (u32)old[p] + 1;
        } else {
            i64 *segment = segment_of(map, slot), i = place_of(slot);
            while (segment[i] != 0)
                i = (i + 1) % SEGMENT;
            segment[i] = old[p];
        }
    }
    if (map->split > map->low && map->low < map->last) {
        map->low = 2 * map->low + 1;
        map->split = 0;
    }
}

/* Give the next line to a slot that has none, and split a segment if a quarter of all entries is in use. */
static u32 new_line(riata_slot_map *map, i64 slot) {
    map->slot_of[map->used] = (u32)slot;
    if (SPARSE * ++map->used > (map->low + 1 + map->split) * SEGMENT && !is_whole(map))
        split_next(map);
    return (u32)(map->used - 1);
}

/* The line of a slot, which gets one if it has none. */
static u32 entered(riata_slot_map *map, i64 slot) {
    for (;;) {
        if (is_direct(map, slot)) {
            u32 *entry = direct_entry(map, slot);
            if (*entry != 0)
                return *entry - 1;
            *entry = (u32)map->used + 1;
            return new_line(map, slot);
        }
        i64 *segment = segment_of(map, slot), i = place_of(slot), probes = 0;
        while (segment[i] != 0 && segment[i] >> HASH_BITS != slot + 1 && ++probes < PROBES_MAX)
            i = (i + 1) % SEGMENT;
        if (segment[i] == 0) {
            segment[i] = (slot + 1) << HASH_BITS | map->used;
            return new_line(map, slot);
        }
        if (segment[i] >> HASH_BITS == slot + 1)
            return (u32)segment[i];
        split_next(map); /* in the end no segment is searched any more */
    }
}

EXPORT void riata_enter_slots(riata_slot_map *map, const u32 *hash, i64 n, i64 shift, i64 up, u32 *out) {
    riata_slot_map now = *map; /* a copy, so that its fields stay in registers */
    for (i64 p = 0; p < n; p++) {
        if (p + SLOTS_AHEAD < n)
            __builtin_prefetch(first_entry(&now, hash[p + SLOTS_AHEAD] >> shift));
        i64 slot = hash[p] >> shift, line = line_at(&now, slot);
        if (line == now.nowhere) {
            line = entered(map, slot);
            if (now.low + now.split != map->low + map->split)
                now = *map;
        }
        out[p] = (u32)line << up;
    }
}

EXPORT void riata_slots_of(const riata_slot_map *map, const u32 *line, i64 n, u32 *slot) {
    const u32 *slot_of = map->slot_of;
    for (i64 p = 0; p < n; p++) {
        __builtin_prefetch(slot_of + line[p + SLOTS_AHEAD < n ? p + SLOTS_AHEAD : n - 1]);
        slot[p] = slot_of[line[p]];
    }
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
