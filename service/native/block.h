/* The block of a sketch, for the C files that use one; block.c explains it. */
#ifndef RIATA_BLOCK_H
#define RIATA_BLOCK_H

#include "riata.h"
#include "work.h"

enum { BLOCK_ROWS = 128 };                          /* rows that wait together */
enum { SIZE, PENDING, MIRRORED, HALT, BLOCK_COUNTS }; /* entries of riata_block.counts */

/* The block as a problem for Shooting. It shares weights, gradients and cross curvature with the block; the other numbers are in `work`.
 *   prior   initial curvature of every feature for each unit of its largest x^2
 *   gamma   penalty in force, in the block's units, multiplied by gamma[j] for member j */
riata_quadratic problem_of(const riata_block *b, double prior, double gamma, double **work);

/* Make sure that whole lines of `cross` can be read. */
void mirror_once(riata_block *b);

#endif
