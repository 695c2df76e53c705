cimport cython

from persistence.log.format.settles cimport SettleRun, SettleState


@cython.locals(settles=SettleState, first=cython.ulonglong, end=cython.ulonglong, run=SettleRun,
               run_end=cython.ulonglong, at=cython.ulonglong)
# A LogState and a BatchHeader, which are not compiled.
cpdef fold(state, header, bytes payload)
@cython.locals(end=cython.ulonglong, offset=cython.ulonglong)
cdef _fold_messages(SettleState settles, unsigned long long base, unsigned long long end, unsigned int record_size,
                    unsigned long records, bytes payload, unsigned long long first)
