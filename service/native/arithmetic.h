/* Minimum and maximum with the result of Python's: the first of two numbers that are equal or cannot be compared. */
#ifndef RIATA_ARITHMETIC_H
#define RIATA_ARITHMETIC_H

#include <math.h>

#include "riata.h"

static inline double least(double a, double b) { return b < a ? b : a; }

static inline double most(double a, double b) { return b > a ? b : a; }

#endif
