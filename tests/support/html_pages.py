"""Reads HTML pages."""

from html.parser import HTMLParser

VOID = {"meta", "br", "img", "wbr"}


class Reader(HTMLParser):
    """Reads a page as a browser does, and notes what is left open, and everything that is said."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())
