# Compiled types of letter.py.

cimport cython

from amqp_router.protocol.message cimport Message
from vhosts.exchanges.route cimport Route
from vhosts.exchanges.walk cimport Walk
from vhosts.queues.death cimport Death
from vhosts.queues.destination cimport Burials
from vhosts.queues.handle cimport QueueHandle
from vhosts.queues.mortal cimport MortalQueue


@cython.final
cdef class Letter:
    cdef public MortalQueue queue
    cdef public Message message
    cdef public str reason
    cdef public Message made
    cdef public Death death
    cdef public bytes args
    cdef public bytes properties
    cdef public Walk walk
    cdef public Sift sift
    cdef public bint is_old
    cdef public bint stays
    cdef public frozenset taken
    cdef public list targets
    cdef public list durable
    cdef public list refusers


@cython.final
cdef class Address:
    cdef public str exchange
    cdef public str key
    cdef public bytes args
    cdef public bytes route


cdef class Sender(Burials):
    cpdef send(self, Letter letter)


@cython.locals(letter=Letter)
cpdef Letter letter_of(MortalQueue queue, Message message, str reason)


@cython.final
cdef class Sift:
    cdef public Py_ssize_t looked_at
    cdef list _kept
    cdef list _kept_durable
    cdef list _queues
    cdef public Route route
    @cython.locals(end=Py_ssize_t, index=Py_ssize_t, queue=QueueHandle)
    cpdef bint go_on(self, Letter letter) except -1
    cpdef Route result(self)
