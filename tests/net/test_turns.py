"""Two threads take turns at the sockets of a member."""

import threading
import time

from zocosmo.net.turns import AWAY, Turns


def test_the_main_thread_gets_its_turn_by_waking_the_other():
    woken = threading.Event()
    turns = Turns(woken.set)
    turns.take()
    other = threading.Thread(target=lambda: (woken.wait(10), turns.give_back()))
    other.start()
    with turns:
        assert woken.is_set()
    other.join()


def test_nobody_is_woken_for_sockets_that_are_free():
    turns = Turns(lambda: 1 / 0)
    for _ in range(3):
        with turns:
            pass


def test_the_other_thread_waits_until_the_main_thread_is_away():
    """It has the sockets neither during a turn nor right after one."""
    turns, taken = Turns(lambda: None), []
    other = threading.Thread(target=lambda: (turns.take(), taken.append(time.monotonic())))
    with turns:
        other.start()
        time.sleep(4 * AWAY)
        assert not taken
    left = time.monotonic()
    other.join(10)
    assert taken[0] >= left


def test_turns_are_never_shared():
    """Both add to a number that only one may touch at a time."""
    turns, count, rounds, done = Turns(lambda: None), [0], 300, threading.Event()

    def add():
        seen = count[0]
        time.sleep(0)
        count[0] = seen + 1

    def serve():
        while not done.is_set():
            turns.take()
            add()
            served.append(1)
            turns.give_back()

    served = []
    other = threading.Thread(target=serve)
    other.start()
    for k in range(rounds):
        if k % 50 == 0:
            time.sleep(3 * AWAY)
        with turns:
            add()
    done.set()
    other.join(10)
    assert count[0] == rounds + len(served)
    assert len(served) >= 5
