// The time that OpenMP's threads spin before they sleep.
#pragma once

namespace rewright {

// GNU's OpenMP lets a thread that waits at a barrier spin for milliseconds, which is fast on an idle machine and ruins
// everything on a busy one: a thread that spins holds the processor that the awaited thread needs (measured on two
// cores with fifteen other processes: 258 ms instead of 10 ms for squeezenet). The library reads its limit from the
// environment when it is loaded, so a program that wants a shorter one must be started with it.
//
// To be called first in main: starts the program anew, with the same arguments and a limit of some tens of
// microseconds in its environment, unless the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY. Returns when there is
// nothing to do, or when the program cannot be started anew.
void ShortenThreadWaiting(char** argv);

}  // namespace rewright
