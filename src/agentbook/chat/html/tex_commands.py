r"""The TeX that a formula may use: an allow-list of commands and environments.

Commands that define something, or that address or style the page outside their formula,
are left out. So are commands that MathJax parses more than once (`overbracket`),
because nesting doubles their time. Commands that move, measure or colour are allowed
only with bounded arguments (`ARGUMENTS`). The names are those of MathJax 3.2.2, as
JupyterLab 4.6 loads it: all packages, and `require`. A command that a later MathJax
adds is refused until someone has read what it does.
"""

from __future__ import annotations

import re

_SYMBOLS = """
    And Arrowvert Bbbk Box Bumpeq Cap Colonapprox Coloneq Coloneqq Colonsim Cup Delta
    Diamond Doteq Downarrow Eqcolon Eqqcolon Finv Game Gamma Im Join Lambda Leftarrow
    Leftrightarrow Lleftarrow Longleftarrow Longleftrightarrow Longrightarrow Lsh Omega
    Phi Pi Psi Re Rightarrow Rrightarrow Rsh S Sigma Subset Supset Theta Uparrow Updelta
    Updownarrow Upgamma Uplambda Upomega Upphi Uppi Uppsi Upsigma Upsilon Uptheta
    Upupsilon Upxi Vdash Vert Vvdash Xi aleph alpha amalg angle approx approxeq
    arrowvert ast asymp backepsilon backprime backsim backsimeq backslash barwedge
    because beta beth between bigcap bigcirc bigcup bigodot bigoplus bigotimes bigsqcup
    bigstar bigtriangledown bigtriangleup biguplus bigvee bigwedge blacklozenge
    blacksquare blacktriangle blacktriangledown blacktriangleleft blacktriangleright bot
    bowtie boxdot boxminus boxplus boxtimes bracevert bullet bumpeq cap cdot cdotp cdots
    celsius centerdot checkmark chi circ circeq circlearrowleft circlearrowright
    circledR circledS circledast circledcirc circleddash clubsuit colon colonapprox
    coloneq coloneqq colonsim complement cong coprod cup curlyeqprec curlyeqsucc
    curlyvee curlywedge curvearrowleft curvearrowright dagger daleth dashleftarrow
    dashrightarrow dashv dblcolon ddagger ddots degree delta diagdown diagup diamond
    diamondsuit digamma div divideontimes divsymbol doteq doteqdot dotplus dotsb dotsc
    dotsi dotsm dotso doublebarwedge doublecap doublecup downarrow downdownarrows
    downharpoonleft downharpoonright ell emptyset epsilon eqcirc eqcolon eqqcolon eqsim
    eqslantgtr eqslantless equiv eta eth exists fallingdotseq flat forall frown gamma ge
    geq geqq geqslant gets gg ggg gggtr gimel gnapprox gneq gneqq gnsim gt gtrapprox
    gtrdot gtreqless gtreqqless gtrless gtrsim gvertneqq hbar heartsuit hookleftarrow
    hookrightarrow hslash iiiint iiint iint imath in infty int intercal intop iota jmath
    kappa lVert lambda land langle lbrace lbrack lceil ldotp ldots le leadsto leftarrow
    leftarrowtail leftharpoondown leftharpoonup leftleftarrows leftrightarrow
    leftrightarrows leftrightharpoons leftrightsquigarrow leftthreetimes leq leqq
    leqslant lessapprox lessdot lesseqgtr lesseqqgtr lessgtr lesssim lfloor lgroup lhd
    ll llcorner lll llless lmoustache lnapprox lneq lneqq lnot lnsim longleftarrow
    longleftrightarrow longmapsto longrightarrow looparrowleft looparrowright lor
    lozenge lparen lrcorner lt ltimes lvert lvertneqq maltese mapsto measuredangle mho
    micro mid models mp mu multimap nLeftarrow nLeftrightarrow nRightarrow nVDash nVdash
    nabla natural ncong ndownarrow ne nearrow neg neq nexists ngeq ngeqq ngeqslant ngtr
    ni nleftarrow nleftrightarrow nleq nleqq nleqslant nless nmid notin nparallel nprec
    npreceq nrightarrow nshortmid nshortparallel nsim nsubseteq nsubseteqq nsucc nsucceq
    nsupseteq nsupseteqq ntriangleleft ntrianglelefteq ntriangleright ntrianglerighteq
    nu nuparrow nvDash nvdash nwarrow odot ohm oint omega omicron ominus oplus oslash
    otimes owns parallel partial perp perthousand phi pi pitchfork pm prec precapprox
    preccurlyeq preceq precnapprox precneqq precnsim precsim prime prod propto psi rVert
    rangle rbrace rbrack rceil restriction rfloor rgroup rhd rho rightarrow
    rightarrowtail rightharpoondown rightharpoonup rightleftarrows rightleftharpoons
    rightrightarrows rightsquigarrow rightthreetimes risingdotseq rmoustache rparen
    rtimes rvert searrow setminus sharp shortmid shortparallel sigma sim simeq
    smallfrown smallint smallsetminus smallsmile smile spadesuit sphericalangle sqcap
    sqcup sqsubset sqsubseteq sqsupset sqsupseteq square star subset subseteq subseteqq
    subsetneq subsetneqq succ succapprox succcurlyeq succeq succnapprox succneqq
    succnsim succsim sum supset supseteq supseteqq supsetneq supsetneqq surd swarrow tau
    therefore theta thickapprox thicksim times to top triangle triangledown triangleleft
    trianglelefteq triangleq triangleright trianglerighteq tripledash twoheadleftarrow
    twoheadrightarrow ulcorner unlhd unrhd upalpha uparrow upbeta upchi updelta
    updownarrow upepsilon upeta upgamma upharpoonleft upharpoonright upiota upkappa
    uplambda uplus upmu upnu upomega upomicron upphi uppi uppsi uprho upsigma upsilon
    uptau uptheta upuparrows upupsilon upvarepsilon upvarphi upvarpi upvarrho upvarsigma
    upvartheta upxi upzeta urcorner vDash varDelta varGamma varLambda varOmega varPhi
    varPi varPsi varSigma varTheta varUpsilon varXi varepsilon varkappa varnothing
    varphi varpi varpropto varrho varsigma varsubsetneq varsubsetneqq varsupsetneq
    varsupsetneqq vartheta vartriangle vartriangleleft vartriangleright vdash vdots vee
    veebar vert wedge wp wr xi yen zeta
"""

_FUNCTIONS = """
    Pr arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf injlim
    ker lg lim liminf limsup ln log max min projlim sec sin sinh sup tan tanh varinjlim
    varliminf varlimsup varprojlim
"""

_FONTS = """
    Bbb Huge LARGE Large Tiny bf cal displaystyle frak hbox huge it large mathbb mathbf
    mathbfcal mathbffrak mathbfit mathbfscr mathbfsf mathbfsfit mathbfsfup mathbfup
    mathcal mathfrak mathit mathnormal mathrm mathscr mathsf mathsfit mathsfup mathtt
    mathup mbox mit normalsize oldstyle pmb rm scr scriptscriptstyle scriptsize
    scriptstyle sf small symbb symbf symbfcal symbffrak symbfit symbfscr symbfsf
    symbfsfit symbfsfup symbfup symcal symfrak symit symnormal symrm symscr symsf
    symsfit symsfup symtt symup text textbf textit textnormal textrm textsf textstyle
    texttt textup tiny tt
"""

_ACCENTS_AND_ARROWS = """
    acute bar breve check ddddot dddot ddot dot grave hat mathring overbrace
    overleftarrow overleftrightarrow overline overparen overrightarrow tilde underbrace
    underleftarrow underleftrightarrow underline underparen underrightarrow vec widehat
    widetilde xLeftarrow xLeftrightarrow xLeftrightharpoons xRightarrow
    xRightleftharpoons xhookleftarrow xhookrightarrow xleftarrow xleftharpoondown
    xleftharpoonup xleftrightarrow xleftrightharpoons xlongequal xmapsto xrightarrow
    xrightharpoondown xrightharpoonup xrightleftharpoons xtofrom xtwoheadleftarrow
    xtwoheadrightarrow
"""

# `ce` and `pu` are chemistry (mhchem).
_STRUCTURE = """
    Aboxed Big Bigg Biggl Biggm Biggr Bigl Bigm Bigr Bra Braket Ket Ketbra LaTeX Set TeX
    above atop atopwithdelims bcancel begin big bigg biggl biggm biggr bigl bigm bigr
    bigtimes binom bmod boldsymbol boxed bra brace brack braket buildrel cancel cancelto
    cases ce centernot cfrac choose clap color colorbox cr cramped crampedclap
    crampedllap crampedrlap crampedsubstack dbinom dfrac displaylines dots enclose end
    enspace eqalign fbox fcolorbox frac genfrac hdashline hfil hfill hline hphantom
    hskip hspace idotsint iff impliedby implies kern ket ketbra left leftroot limits
    llap longLeftrightharpoons longRightleftharpoons longleftrightarrows
    longrightleftharpoons lower mathbin mathchoice mathclap mathclose mathinner mathllap
    mathop mathopen mathord mathpunct mathrel mathrlap mathstrut matrix middle mkern mod
    mskip mspace negmedspace negthickspace negthinspace newline nobreakspace nolimits
    nonumber not notag operatorname over overset overunderset overwithdelims phantom
    pmatrix pmod pod prescript pu qquad quad raise right rlap root rule set shoveleft
    shoveright sideset smash space splitdfrac splitfrac sqrt stackbin stackrel strut
    substack tag tbinom textclap textcolor textllap textrlap tfrac thinspace underset
    uproot vcenter vphantom xcancel
"""

_TEXT = """
    textacutedbl textasciiacute textasciibreve textasciicaron textasciicircum
    textasciidieresis textasciimacron textasciitilde textasteriskcentered textbackslash
    textbaht textbar textbardbl textbigcircle textblank textborn textbraceleft
    textbraceright textbrokenbar textbullet textcelsius textcent textcentoldstyle
    textcircledP textcolonmonetary textcompwordmark textcopyleft textcopyright
    textcurrency textdagger textdaggerdbl textdegree textdied textdiscount textdiv
    textdivorced textdollar textdollaroldstyle textdong textdownarrow texteightoldstyle
    textellipsis textemdash textendash textestimated texteuro textexclamdown
    textfiveoldstyle textflorin textfouroldstyle textfractionsolidus textgravedbl
    textgreater textguarani textinterrobang textinterrobangdown textlangle textlbrackdbl
    textleftarrow textless textlira textlnot textlquill textmarried textmho textminus
    textmu textmusicalnote textnaira textnineoldstyle textnumero textohm textonehalf
    textoneoldstyle textonequarter textonesuperior textopenbullet textordfeminine
    textordmasculine textparagraph textperiodcentered textpertenthousand textperthousand
    textpeso textpm textquestiondown textquotedblleft textquotedblright textquoteleft
    textquoteright textrangle textrbrackdbl textrecipe textreferencemark textregistered
    textrightarrow textrquill textsection textservicemark textsevenoldstyle
    textsixoldstyle textsterling textsurd textthreeoldstyle textthreequarters
    textthreesuperior texttildelow texttimes texttrademark texttwooldstyle
    texttwosuperior textunderscore textuparrow textvisiblespace textwon textyen
    textzerooldstyle
"""

# A backslash and one of these; a line break after a backslash is a space.
_SINGLE = "\\,:;!> \n{}|#$%&_"

_GROUPS = (_SYMBOLS, _FUNCTIONS, _FONTS, _ACCENTS_AND_ARROWS, _STRUCTURE, _TEXT)
COMMANDS = frozenset([*_SINGLE, *" ".join(_GROUPS).split()])

_ENVIRONMENTS = """
    align align* alignat alignat* aligned alignedat array Bmatrix Bmatrix* bmatrix
    bmatrix* Bsmallmatrix bsmallmatrix cases cases* dcases dcases* drcases drcases*
    eqnarray eqnarray* equation equation* flalign flalign* gather gather* gathered
    lgathered matrix matrix* multline multline* multlined pmatrix pmatrix* psmallmatrix
    rcases rcases* rgathered smallmatrix smallmatrix* split subarray Vmatrix Vmatrix*
    vmatrix vmatrix* Vsmallmatrix vsmallmatrix
"""
ENVIRONMENTS = frozenset(_ENVIRONMENTS.split())

# Possessive, so that spaces do not make them backtrack.
_LENGTH = r"\s*+\d{0,2}(?:\.\d++)?\s*+(?:em|ex|mu|pt|pc|px|mm|cm|in)\s*+"
# Not further back than the thin spaces that TeX has commands for, or a line of text: a
# formula must not cover what comes before it.
_BACK = r"\s*+-\s*+(?:0?\.\d++\s*+(?:em|ex|mm)|(?:\d|1[0-8])(?:\.\d++)?\s*+mu|\d(?:\.\d++)?\s*+(?:pt|px))\s*+"
_SPACE = rf"(?:{_LENGTH}|{_BACK})"
_LENGTH_ARGUMENT = rf"(?:\s*+\{{{_LENGTH}\}}|{_LENGTH})"
_SPACE_ARGUMENT = rf"(?:\s*+\{{{_SPACE}\}}|{_SPACE})"
_ENVIRONMENT = rf"\s*+\{{(?:{'|'.join(map(re.escape, sorted(ENVIRONMENTS)))})\}}"
_COLOR = r"(?:\[[A-Za-z]{1,5}\])?\s*+\{[A-Za-z0-9#., ]++\}"
_COLOR_NAME = r"\s*+\{#?[A-Za-z0-9]++\}"
_DELIMITER = r"\s*+\{\s*+(?:[()\[\]|/<>.]|\\[{}|]|\\[lr](?:angle|brace|brack|ceil|floor|vert|Vert))?+\s*+\}"
_NO_OPTION = r"(?!\s*+\[)"
# What must follow a command.
ARGUMENTS = {
    name: re.compile(pattern)
    for names, pattern in (
        ("begin end", _ENVIRONMENT),
        ("color textcolor", _COLOR),
        ("colorbox", _COLOR_NAME),
        ("fcolorbox", _COLOR_NAME * 2),
        ("hspace", rf"\*?\s*+\{{{_SPACE}\}}"),
        ("hskip kern mkern mskip mspace raise lower", _SPACE_ARGUMENT),
        ("rule", rf"(?:\s*+\[{_SPACE}\])?+{_LENGTH_ARGUMENT}{_LENGTH_ARGUMENT}"),
        ("above", _LENGTH_ARGUMENT),
        ("genfrac", rf"{_DELIMITER}{_DELIMITER}\s*+\{{(?:{_LENGTH})?+\}}\s*+\{{[0-3]?+\}}"),
        ("leftroot uproot", r"\s*+(?:\d|\{-?\d{1,2}\})"),
        # After a line break, brackets hold the distance to the next line.
        (r"\ newline cr", rf"(?:\s*+\*?+\s*+\[{_SPACE}\]|(?!\s*+\*?+\s*+\[))"),
        # In brackets, they accept attributes.
        ("cancel bcancel xcancel cancelto", _NO_OPTION),
        ("enclose", rf"\s*+\{{[a-z, ]++\}}{_NO_OPTION}"),
        # Without a brace, MathJax reads half of a line break and then a command.
        ("cases matrix pmatrix displaylines eqalign", r"\s*+\{"),
    )
    for name in names.split()
}
