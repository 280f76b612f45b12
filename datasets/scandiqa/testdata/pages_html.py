"""Writes pages_html.json: what Beautiful Soup over html.parser makes of pages.

python pages_html.py > pages_html.json    (made with beautifulsoup4, version in the file)
"""

import json
import platform

import bs4

LONG = "En sætning om æbler, øer og åer, som er lang nok til at tælle med. " * 4

PAGES = [
    "<p>" + LONG + "</p><p>kort</p>",
    # Elements in each other; the texts of neighbours touch.
    "<table><tr><td>" + LONG + "<table><tr><td>indre " + LONG + "</td></tr></table></td><td>b</td></tr></table>",
    "<p>a<span>" + LONG + "<b>fed</b></span>slut</p>",
    # End tags that are missing, too many, or in the wrong order.
    "<p>" + LONG + "<p>" + LONG + "efter",
    "</p></div><p>" + LONG + "</span></p>rest",
    "<span><p>" + LONG + "</span>ude</p><p>" + LONG + "</p>",
    "<table><p>" + LONG + "</table>bag</p>",
    # Void elements and those closed at once.
    "<p>linje<br>to<br/>tre<hr>" + LONG + "<img src=x>fire</p>",
    "<span/>" + LONG + "<p/>" + LONG,
    # Character references, also broken ones.
    "<p>&lt;&amp;&nbsp;&eacute;&#230;&#xe5; &copy " + LONG + "</p>",
    # What is not text.
    "<p><script>var a = '<p>x</p>';</script><style>p{}</style><!-- nej --><![CDATA[cdata]]>" + LONG + "</p>",
    "<p><template>skjult <b>ogs\u00e5</b></template>" + LONG + "<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby></p>",
    "<!DOCTYPE html><html><head><title>Titel</title></head><body>\n\n<p>\n\n" + LONG + "\n</p>\n</body></html>",
    # Upper case, attributes with marks in them.
    '<P CLASS="a>b" title="<p>">' + LONG + "</P>",
    "<p>5 < 6 og 7 > 3 " + LONG + "</p>",
    "<p> <b>a</b>\t\n <i>b</i> \f</p><pre>  \n  <b>c</b></pre><p>" + LONG + " <!-- --> <b> </b></p>",
    "<textarea><p>" + LONG + "</p></textarea>",
    "<title><p>" + LONG + "</p></title>",
]

out = {"beautifulsoup4": bs4.__version__, "python": platform.python_version(), "pages": []}
for page in PAGES:
    soup = bs4.BeautifulSoup(page.encode(), "html.parser")
    out["pages"].append(
        {
            "html": page,
            "text": soup.get_text(),
            "paragraphs": [
                tag.get_text().strip("\n")
                for name in ["p", "span", "table"]
                for tag in soup.find_all(name)
                if len(tag.get_text()) > 200
            ],
        }
    )
print(json.dumps(out, ensure_ascii=False, indent=1))
