"""What an attempt does outside itself, and how a superseded one is kept from doing it twice.

transaction     the user's writes and the accepted result in one commit, checked last
"""
