#include "unicode.h"

#include "tables.h" /* UNICODE_PAGES, _FLAGS, _FOLDS, _PAIRS, _COMPOSED, made by the build */

enum { PAGE_BITS = 7, IN_PAGE = (1 << PAGE_BITS) - 1, FIRST_BITS = 21 };
enum { /* Hangul, section 3.12 of the Unicode Standard */
    LEADS = 0x1100, LEADS_END = 0x1113, VOWELS = 0x1161, VOWELS_END = 0x1176, TRAILS = 0x11A7, TRAILS_END = 0x11C3,
    SYLLABLES = 0xAC00, SYLLABLES_END = 0xD7A4, VOWEL_COUNT = 21, TRAIL_COUNT = 28,
};

static inline u32 place(u32 point) { return (u32)UNICODE_PAGES[point >> PAGE_BITS] << PAGE_BITS | (point & IN_PAGE); }

u32 flags_of(u32 point) { return UNICODE_FLAGS[place(point)]; }

u32 folded(u32 point) { return point + (u32)UNICODE_FOLDS[place(point)]; }

i64 composed(u32 first, u32 second) {
    if (first >= LEADS && first < LEADS_END && second >= VOWELS && second < VOWELS_END)
        return SYLLABLES + ((i64)(first - LEADS) * VOWEL_COUNT + second - VOWELS) * TRAIL_COUNT;
    if (first >= SYLLABLES && first < SYLLABLES_END && (first - SYLLABLES) % TRAIL_COUNT == 0 && second > TRAILS &&
        second < TRAILS_END)
        return first + second - TRAILS;
    u64 wanted = (u64)first << FIRST_BITS | second;
    i64 low = 0, high = UNICODE_PAIRS_SIZE;
    while (low < high) {
        i64 middle = (low + high) >> 1;
        if (UNICODE_PAIRS[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < UNICODE_PAIRS_SIZE && UNICODE_PAIRS[low] == wanted ? (i64)UNICODE_COMPOSED[low] : -1;
}

/* RFC 3629, section 4 */
i64 code_point(const u8 **p, const u8 *stop) {
    const u8 *at = *p;
    u32 c = *at;
    if (c < 0x80) {
        *p = at + 1;
        return c;
    }
    int size = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (c < 0xC2 || c >= 0xF5 || at + size > stop)
        return -1;
    u32 point = c & (0x7Fu >> size);
    for (int i = 1; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return -1;
        point = point << 6 | (at[i] & 0x3F);
    }
    if ((size == 3 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) ||
        (size == 4 && (point < 0x10000 || point >= 0x110000)))
        return -1;
    *p = at + size;
    return point;
}

u8 *put_point(u8 *at, u32 point) {
    if (point < 0x80) {
        *at = (u8)point;
        return at + 1;
    }
    if (point < 0x800) {
        at[0] = (u8)(0xC0 | point >> 6);
        at[1] = (u8)(0x80 | (point & 0x3F));
        return at + 2;
    }
    if (point < 0x10000) {
        at[0] = (u8)(0xE0 | point >> 12);
        at[1] = (u8)(0x80 | (point >> 6 & 0x3F));
        at[2] = (u8)(0x80 | (point & 0x3F));
        return at + 3;
    }
    at[0] = (u8)(0xF0 | point >> 18);
    at[1] = (u8)(0x80 | (point >> 12 & 0x3F));
    at[2] = (u8)(0x80 | (point >> 6 & 0x3F));
    at[3] = (u8)(0x80 | (point & 0x3F));
    return at + 4;
}

/* No byte below a space, none of 0x7F and above. */
static inline bool is_plain(u64 word) { return ((((word - 0x20 * ONES) & ~word) | (word + ONES) | word) & TOPS) == 0; }

/* UAX #15: a character is compared with the last starter unless one of the same or a higher class is between them. */
int string_code(const u8 *p, const u8 *stop) {
    i64 starter = -1;
    u32 last = 0;
    int code = OK;
    while (p < stop) {
        if (stop - p >= 8 && is_plain(load_word(p))) {
            p += 8;
            starter = p[-1], last = 0;
            continue;
        }
        if (*p >= ' ' && *p < 0x7F) {
            starter = *p++, last = 0;
            continue;
        }
        i64 point = code_point(&p, stop);
        if (point < 0)
            return INVALID_UTF8;
        u32 flags = flags_of((u32)point), order = flags >> CLASS_SHIFT;
        if (flags & CONTROL)
            code = BAD_NAME;
        else if (flags & NEVER || (order > 0 && order < last))
            code = code == OK ? NOT_NFC : code;
        else if (flags & MAYBE && starter >= 0 && code == OK && (last < order || (last == 0 && order == 0)))
            code = composed((u32)starter, (u32)point) >= 0 ? NOT_NFC : OK;
        starter = order == 0 ? point : starter;
        last = order;
    }
    return code;
}

EXPORT i64 riata_name_code(const u8 *name, i64 size) { return name_code(name, name + size); }
