/* java_number.h: parses texts as numbers exactly as Java does. Private to csrc.
 * Java SE 17: Integer.valueOf(String), Long.valueOf(String), Double.valueOf(String); only ASCII digits.
 *
 * Threads  pure functions.
 */
#ifndef RP_BASE_JAVA_NUMBER_H
#define RP_BASE_JAVA_NUMBER_H

#include <stdint.h>

#include "slice.h"

#define RP_JAVA_REAL_SIZE_MAX 1024u /* a longer text is not accepted as a real number */

/* Parses an optional sign and digits, nothing else. 1: *value is within [min, max]; 0: NumberFormatException. */
int rp_java_integer(rp_slice text, int64_t min, int64_t max, int64_t *value);
/* Parses a real number. Characters up to the blank (U+0020) are cut off at both ends, as by String.trim; NaN, Infinity, exponents,
 * hexadecimal numbers and a suffix of d or f are accepted. 1, or 0 as above. */
int rp_java_real(rp_slice text, double *value);
/* As Double.compare: below 0, 0, above 0; 0.0 is above -0.0, NaN above everything else. */
int rp_java_compare_reals(double left, double right);

#endif
