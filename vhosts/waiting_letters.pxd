# Compiled types of waiting_letters.py.

cimport cython

from persistence.memory cimport MemoryBudget
from vhosts.letter cimport Letter, Sender
from vhosts.queues.handle cimport QueueHandle
from vhosts.queues.mortal cimport MortalQueue


cdef class WaitingRoom:
    cdef MemoryBudget _account
    cdef Sender _sender
    cdef dict _lines
    cdef dict _put_off
    cdef dict _sent
    cdef public long long count
    cdef public unsigned long long refused_total
    cdef public unsigned long long left_total
    cpdef bint must_wait(self, Letter letter, QueueHandle target) except -1
    cpdef bint must_be_put_off(self, MortalQueue queue) except -1
    cpdef bint put_off(self, Letter letter) except -1
    cpdef send_put_off(self, long long most)
    cdef _line(self, MortalQueue queue, QueueHandle target, long long more=*)
    cpdef done(self, Letter letter, bint is_taken)
    @cython.locals(letter=Letter)
    cdef _feed(self, line)
    cdef Letter _letter(self, line, entry)
    cdef _leaves(self, line, offset)
