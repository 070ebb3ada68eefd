"""What to know about each dataset before using it: origin, meaning, harms, limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataCard:
    """The facts of a data card; texts are plain sentences, `published` holds counts by description.

    provenance : who collected it, where and when. measured : what a row and its columns are.
    label : what y = 1 means. sensitive : what a = 1 means and how the attribute was recorded.
    decisions : what the loader does where the papers leave it open.
    """

    title: str
    provenance: str
    measured: str
    label: str
    sensitive: str
    licence: str
    url: str
    citation: str
    published: Mapping[str, float] = field(default_factory=dict)
    harms: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()


ADULT = DataCard(
    title="Adult (census income, 1994)",
    provenance=(
        "Drawn by Barry Becker from the US Census Bureau's population survey of 1994 and given to the"
        " UCI repository by Becker and Ronny Kohavi in 1996. Kept were people over 16 with some"
        " income, some working hours and a positive survey weight."
    ),
    measured=(
        "One row per person surveyed: age, class of work, schooling, marital status, occupation,"
        " place in the household, race, sex, capital gain and loss, weekly hours, country of birth, as"
        " told to an interviewer. fnlwgt is the number of people the row stands for."
    ),
    label="y = 1: yearly income above 50,000 dollars of 1994, about the top quarter of the rows.",
    sensitive=(
        "Sex, two values, a = 1 for Male. By option race, five values in the file, a = 1 for White"
        " and 0 for the other four together."
    ),
    licence="CC BY 4.0, as the UCI repository states",
    url="https://archive.ics.uci.edu/dataset/2/adult",
    citation=(
        "Becker and Kohavi (1996), Adult, UCI Machine Learning Repository; first used in Kohavi"
        " (1996), Scaling up the accuracy of naive-Bayes classifiers, KDD."
    ),
    published={
        "rows": 48_842,
        "rows of the training file": 32_561,
        "rows of the test file": 16_281,
        "complete rows": 45_222,
        "percent above 50K": 23.93,
    },
    harms=(
        "Nobody decides anything with this prediction. A gap between groups here mirrors unequal pay"
        " and unequal access to work; a smaller gap on paper changes neither.",
        "Calling high income the favourable outcome suggests an allocation, such as credit, that was never recorded in the data.",
        "Marital status and place in the household (Husband, Wife) give sex away, so leaving sex out"
        " of the features does not make a model blind to it.",
    ),
    limits=(
        "The threshold of 50,000 dollars cuts groups at very different places: 30 percent of the men"
        " and 11 percent of the women are above it. Fairness results change with the threshold (Ding"
        " et al. 2021).",
        "Sex has two values and race five broad ones; joining four of them to one group hides differences.",
        "Only people with work and income are in it. One row in fourteen has unknown values; without"
        " those rows the share above 50K is 24.8 instead of 23.9 percent.",
        "It is a thirty-year-old sample of one country. The rows are not weighted here, so shares are"
        " not those of the population.",
    ),
    decisions=(
        "Both files are merged and rows with unknown values dropped, because the counts printed in"
        " FairFed's Table 6 add up to 80 percent of that. rows='train' gives the file behind Table 7.",
        "Categories become integers in alphabetical order. That order means nothing; it is the"
        " default since the paper counts twelve features and a co-author's published file is coded so."
        " encoding='onehot' is the other reading.",
        "The sensitive attribute is not a feature. FAIR-FATE keeps it, and uses all 48,842 rows and all 14 columns"
        " scaled to 0..1: rows='all', features='all', scaling='minmax'.",
        "EFFL does not say which columns it uses. The code of FCFL, whose split by doctorate it takes over, has the categorical"
        " columns alone, one-hot, with race left out: rows='all', features='categorical', encoding='onehot', sensitive='race',"
        " scaling='none'. There 'unknown' has no column of its own; unknown='zeros' does the same.",
    ),
)

COMPAS = DataCard(
    title="COMPAS (Broward County, 2013-2014)",
    provenance=(
        "Gathered by ProPublica in 2016: scores of the commercial COMPAS risk assessment obtained"
        " from the sheriff of Broward County, Florida, joined by name and birth date to court and jail"
        " records."
    ),
    measured=(
        "One row per defendant scored before trial in 2013 or 2014: age, sex, race as recorded by the"
        " sheriff's office, juvenile and prior counts, the charge, the score, and whether a new charge"
        " followed."
    ),
    label=(
        "y = 1: no new charge within two years, the favourable outcome. A charge is not a crime: the"
        " label records arrests and prosecutions."
    ),
    sensitive=(
        "Race, a = 1 for Caucasian and 0 for all others together. By option sex, a = 1 for Female,"
        " the group that is charged again less often."
    ),
    licence="none stated by the publisher",
    url="https://github.com/propublica/compas-analysis",
    citation="Angwin, Larson, Mattu and Kirchner (2016), Machine Bias, ProPublica.",
    published={
        "rows": 7_214,
        "rows after ProPublica's filter": 6_172,
        "of these African-American": 3_175,
        "of these Caucasian": 2_103,
        "rows in FairFed": 6_167,
    },
    harms=(
        "Scores of this kind are used on bail and sentences. An error means detention for one person;"
        " the same error rate in two groups does not make such a use just.",
        "Where policing is heavier more people are charged again, so the label carries the unequal"
        " treatment that a fairness measure is asked to find. Fair by this label can be unfair by"
        " conduct.",
        "The rows are real people found by name. The names are in the publisher's file; the loader"
        " does not read them into the table.",
    ),
    limits=(
        "People charged again were kept beyond the two-year window and people not charged again were"
        " not, which raises the share charged again from about 36 to 45 percent (Barenstein 2019).",
        "The join by name and birth date has errors, and time in jail shortens the time at risk.",
        "6,167 rows from one county and two years; differences of a percent are within noise.",
        "Six features know little: accuracy stays near two thirds whatever the method.",
    ),
    decisions=(
        "ProPublica's filter, and a charge description must be there: that gives the 6,167 of the paper.",
        "Which label is favourable is not printed. With no new charge as y = 1 the printed signs make sense.",
        "Race and sex are both kept out of the features, and so is the COMPAS score. FAIR-FATE uses all three and the"
        " description of the charge, scaled to 0..1: features='all', scaling='minmax'.",
    ),
)

LAW_SCHOOL = DataCard(
    title="Law School (bar passage study, 1991-1996)",
    provenance=(
        "The Law School Admission Council followed the students who began law school in the United States in"
        " the fall of 1991 for five years, with data from the students, their schools and the boards of bar"
        " examiners. The file is the cleaned version by the authors of a survey of fairness datasets (Le Quy"
        " et al. 2022), which FAIR-FATE uses."
    ),
    measured=(
        "One row per student: admission test score (lsat), college grades (ugpa), grades of the first year and"
        " overall as standard scores (zfygpa, zgpa) and as deciles in the school (decile1b, decile3), full or"
        " part time, family income in five steps, sex, the tier of the school, race."
    ),
    label="y = 1: passed the bar exam, without which nobody may practise law.",
    sensitive=("Race, two values in the file, a = 1 for White and 0 for Non-White. By option sex, two values, a = 1 for male."),
    licence="none stated by the source of the file",
    url="https://github.com/tailequy/fairness_dataset",
    citation=(
        "Wightman (1998), LSAC National Longitudinal Bar Passage Study, LSAC Research Report Series; Le Quy, Roy,"
        " Iosifidis, Zhang and Ntoutsi (2022), A survey on datasets for fairness-aware machine learning, WIREs Data"
        " Mining and Knowledge Discovery 12."
    ),
    published={"rows": 20_798, "columns with the label": 12},
    harms=(
        "Nobody is admitted to the bar by a prediction. But a model like this can be used on applicants, and would"
        " turn away people who would have passed: in the study 84.7 percent of the participants of color passed"
        " in the end.",
        "The exam is itself a gate with a history. A label that follows the gate cannot show whether it is fair.",
    ),
    limits=(
        "Nearly everyone passes: answering 1 for every row is right in 89.0 percent of them and treats both groups"
        " alike. Accuracy says little here.",
        "The file does not say which try is meant. In the study 94.8 percent passed in the end (21,886 of 23,086), in"
        " the file 89.0 percent, so the label is most likely the first try.",
        "All who are not White are one group, though the study tells them apart: 77.6 percent of the African Americans"
        " passed in the end, 84.7 percent of all participants of color.",
        "Only students with a result of the exam and no gap in their record are in it, one class of thirty years ago.",
        "Grades of law school are features. They are known only years after an admission.",
    ),
    decisions=(
        "All eleven columns are features, race among them, because FAIR-FATE's published code keeps them;"
        " keep_sensitive=False leaves race out.",
        "scaling='none' gives what that code trains on: for this dataset alone it scales nothing.",
        "Tier and family income are taken as numbers, since both are ordered.",
    ),
)

DUTCH = DataCard(
    title="Dutch census (2001)",
    provenance=(
        "Statistics Netherlands joined registers and surveys to a census without forms, and gave an anonymous"
        " sample of about one percent to IPUMS. Researchers made a prediction task of it. The"
        " file is the version by the authors of a survey of fairness datasets (Le Quy et al. 2022), which"
        " FAIR-FATE uses."
    ),
    measured=(
        "One row per person with work: sex, age in classes of five years, position in the household and its size,"
        " whether the address was another a year before, citizenship, country of birth, schooling, economic status,"
        " branch of work, marital status, all as codes of the census."
    ),
    label=("y = 1: high-level occupation, 0: low-level. The occupations between them were left out by the makers of the task."),
    sensitive="Sex as registered, two values, a = 1 for male.",
    licence="none stated by the source of the file; the sample itself is given out by IPUMS on registration",
    url="https://github.com/tailequy/fairness_dataset",
    citation=(
        "Minnesota Population Center, IPUMS International, Netherlands 2001; Zliobaite, Kamiran and Calders (2011),"
        " Handling conditional discrimination, ICDM; Le Quy, Roy, Iosifidis, Zhang and Ntoutsi (2022), A survey on"
        " datasets for fairness-aware machine learning, WIREs Data Mining and Knowledge Discovery 12."
    ),
    published={"rows": 60_420, "columns with the label": 12},
    harms=(
        "Nobody is hired by this prediction. The gap is that of the labour market: 63 percent of the men and 33 percent"
        " of the women have the label 1.",
        "Calling one half of all work low-level is a judgement, and it marks much of the work that women do.",
        "With the same schooling women have the label 1 less often at every level. Adding schooling to a model explains"
        " a part of the gap and justifies none of it.",
    ),
    limits=(
        "Only 18,438 of the 60,420 rows differ from each other, so most test rows have a twin among the training rows.",
        "Many rows agree in all features and differ in the label, so no model can be right in more than 88.2 percent of"
        " all rows.",
        "With the middle occupations left out the task is easier than life, and its base rate is not the country's.",
        "The sample comes with weights. They are not in the file, so shares are not those of the population.",
        "Household, activity and status are codes of classifications; as numbers their order means little.",
    ),
    decisions=(
        "All eleven columns are features, sex among them, because FAIR-FATE's published code keeps them;"
        " keep_sensitive=False leaves sex out.",
        "Codes are taken as the numbers they are, as that code does, which then scales them to 0..1 (scaling='minmax')."
        " encoding='onehot' is the other reading.",
    ),
)

ACSINCOME = DataCard(
    title="ACSIncome (American Community Survey, 2018, by state)",
    provenance=(
        "Public Use Microdata Sample of the US Census Bureau's American Community Survey of 2018,"
        " turned into a prediction task by the authors of folktables as a successor of Adult."
    ),
    measured=(
        "One row per person over 16 with income above 100 dollars and some weekly hours: age, class"
        " of worker, schooling, marital status, occupation, place of birth, relationship to the"
        " householder, hours."
    ),
    label="y = 1: income above 50,000 dollars in the twelve months before the interview.",
    sensitive=("Race as self-reported, a = 1 for White alone and 0 for all others. By option sex, a = 1 for male."),
    licence="public use file of the US Census Bureau; folktables itself is MIT",
    url="https://github.com/socialfoundations/folktables",
    citation="Ding, Hardt, Miller and Schmidt (2021), Retiring Adult, NeurIPS.",
    published={
        "rows, 50 states and Puerto Rico": 1_664_500,
        "states": 51,
        "rows of Wyoming, the smallest": 3_064,
        "rows of California, the largest": 195_665,
        "percent White in Hawaii, the lowest": 26,
        "percent White in Vermont, the highest": 96,
    },
    harms=(
        "As with Adult, income is not a decision about a person. The gap measures society before it measures a model.",
        "A model trained across states can serve the large ones and fail the small ones; the mean"
        " hides it, so look at each state.",
    ),
    limits=(
        "One dollar threshold for all states, whatever the cost of living: in South Dakota 27 percent"
        " of the rows are above it, in New Jersey 49.",
        "White against everyone else joins groups whose incomes differ in both directions.",
        "The Bureau adds noise and swaps records to protect people. Survey weights are not used.",
        "Occupation and place of birth are codes with hundreds of values; as numbers their order means little.",
    ),
    decisions=(
        "The eight features that FairFed lists are used, so neither sex nor race.",
        "The complete data come from folktables' files. A prepared file is read when those are not"
        " there: it lacks California, has a third of Florida, merged values, and twelve states that"
        " its makers altered; those twelve are left out and 38 states remain.",
    ),
)

SYNTHETIC = DataCard(
    title="Synthetic data of EFFL (two attributes, two clients)",
    provenance="Drawn by this package from the distribution that EFFL prints in its appendix B.1. Nobody was measured.",
    measured="One row per draw: x1, x2 and the protected attribute A, which is 0 or 1 with equal chances.",
    label=(
        "y = 1: drawn with a chance that depends on A and on the sign of x1 + x2: 0.3 and 0.6 for A = 0, 0.1 and 0.9 for A = 1."
    ),
    sensitive="A, a = 1 for A = 1. Its labels follow the sign of x1 + x2 more closely, and its x2 is larger by 1 on average.",
    licence="that of this package",
    url="https://arxiv.org/abs/2309.16338",
    citation="Recipe: Gao et al. (2023), EFFL, appendix B.1.",
    published={"clients": 2},
    harms=("Taking a gap that was written into a recipe for one that was found.",),
    limits=(
        "No classifier is right more often than 0.775: the best one answers by the sign of x1 + x2, for both groups alike.",
        "That best classifier is not fair by any of the paper's measures. So a fair method has to lose accuracy here.",
        "The clients differ in x1, which is all that separates them, so neither has seen what the other knows.",
    ),
    decisions=(
        "The number of rows is not printed: 5,000 for training and 2,000 for test, drawn anew for each seed.",
        "N(., 2) may give a variance or a standard deviation. Variance is what the notation usually means; spread='sd' is the"
        " other reading. The numbers that are printed for FedAvg do not decide between them.",
        "A is an input, since the paper writes h(X, A). keep_sensitive=False leaves it out.",
    ),
)

ACSPUBLICCOVERAGE = DataCard(
    title="ACSPublicCoverage (US survey of 2022, by state)",
    provenance=(
        "The American Community Survey of the US Census Bureau, through folktables, which chooses rows and columns. EFFL uses the"
        " survey of 2022; the authors of the task describe that of 2018."
    ),
    measured=(
        "One row per person under 65 with a yearly income of 30,000 dollars or less: age, schooling, marital status, sex,"
        " disability, employment of the parents, citizenship, mobility, military service, ancestry, nativity, hearing, vision and"
        " cognitive difficulty, income, employment, birth of a child, race."
    ),
    label="y = 1: covered by public health insurance.",
    sensitive="Race as self-reported, a = 1 for White alone and 0 for all others. By option sex, a = 1 for male.",
    licence="public use file of the US Census Bureau; folktables itself is MIT",
    url="https://github.com/socialfoundations/folktables",
    citation="Ding, Hardt, Miller and Schmidt (2021), Retiring Adult, NeurIPS.",
    published={"clients": 51, "features of the task, the state among them": 19, "rows in the survey of 2018": 1_138_289},
    harms=(
        "Coverage is partly a matter of law: who may have public insurance differs by state. A model can learn the law of a state"
        " from its people, and be called unfair for it.",
        "A person whom the model takes for covered may be somebody who is missed when help is handed out.",
    ),
    limits=(
        "Rules of eligibility differ between states, so clients differ in the label and not only in the features.",
        "White against everyone else joins groups that differ in both directions.",
        "The Bureau adds noise and swaps records to protect people. Survey weights are not used.",
    ),
    decisions=(
        "Files, filter and columns are those of folktables. The state is left out of the features, since it is the client.",
        "EFFL does not say what its sensitive attribute is here. Race is taken, which is the group of folktables' task.",
        "Clients are the 50 states and Puerto Rico, as folktables lists them: 51, as many as are printed.",
        "Empty cells are 0, as in folktables.",
    ),
)

EICU = DataCard(
    title="eICU (intensive care in US hospitals, 2014-2015)",
    provenance=(
        "Collected by the Philips eICU programme, which watches over patients in intensive care from afar, and made into a"
        " research database by the Laboratory for Computational Physiology at MIT."
    ),
    measured=(
        "One row per stay in an intensive care unit: age, sex, height, weight, kind of unit, where the patient came from, and the"
        " APACHE scores of the first day."
    ),
    label="y = 1: a stay longer than the median. By option the patient's death in hospital.",
    sensitive="Ethnicity as the hospital recorded it, a = 1 for Caucasian. By option sex, a = 1 for Male.",
    licence="PhysioNet credentialed health data licence: training, an agreement, and no passing on",
    url="https://physionet.org/content/eicu-crd",
    citation=(
        "Pollard, Johnson, Raffa, Celi, Mark and Badawi (2018), The eICU Collaborative Research Database, Scientific Data 5;"
        " Johnson, Pollard and Naumann (2018), Generalizability of predictive models for intensive care unit patients."
    ),
    published={"unit stays": 200_859, "patients": 139_367, "hospitals": 208, "hospitals in EFFL": 11},
    harms=(
        "A wrong forecast of a long stay can move a patient out of a bed. The records say how long people stayed, not how long"
        " they should have.",
        "Stays end for reasons that have nothing to do with health, such as insurance or a free bed elsewhere, and these differ"
        " between groups.",
    ),
    limits=(
        "EFFL names neither outcome nor sensitive attribute, and refers for its steps to a paper that has another question.",
        "Ethnicity is recorded by staff, and in different ways by different hospitals.",
        "Eleven hospitals of 208: the largest, so nothing is said about small ones.",
    ),
    decisions=(
        "The files are patient.csv.gz and apachePatientResult.csv.gz, in FAIRFL_DATA/eicu.",
        "FCFL's code, which EFFL's data follow, has a version for length of stay and one for deaths. An accuracy of 0.65 fits the"
        " first, cut where about half the patients stay longer; always answering that nobody dies would be right far more often.",
        "Kept are first stays of people of 16 or more with an APACHE IVa score. Where that leaves another number of hospitals"
        " than 11, the table says so.",
    ),
)

EICU_STAND_IN = DataCard(
    title="eICU stand-in (11 made-up hospitals)",
    provenance="Generated by this package. It holds no record of eICU.",
    measured="One row per made-up patient: 10 numbers that all see the same hidden condition through noise.",
    label="y = 1: a made-up stay above the published median of 1.57 days.",
    sensitive="A made-up attribute with the real one's name, a = 1 for Caucasian. The condition is worse for a = 0.",
    licence="that of this package",
    url="https://physionet.org/content/eicu-crd",
    citation=(
        "Hospitals and least size: Gao et al. (2023), EFFL, appendix B.1. Length of stay: O'Halloran, Kwong, Veldhoen and Maslove"
        " (2020), Critical Care Medicine 48."
    ),
    published={"hospitals": 11, "rows of the smallest hospital": 1_500},
    harms=("Reading a result on it as one about patients, hospitals or race.",),
    limits=(
        "It can show how a method behaves with 11 unequal clients. It cannot confirm or refute a number of EFFL's tables.",
        "How strongly the features tell the label was chosen so that accuracies come near the printed ones. That they do is no"
        " finding.",
    ),
    decisions=(
        "Sizes, shares of groups, how hospitals differ, the gap between groups and all features are made up; the recipe is in the"
        " docstring of the package's function that draws them.",
    ),
)

TILES = DataCard(
    title="TILES-2018 (wearable sensors on hospital workers)",
    provenance=(
        "Ten weeks of 2018 with volunteers at a large hospital in Los Angeles, recorded by the"
        " University of Southern California. FairFed uses the nurses: 1,560 daily records of three"
        " occupations."
    ),
    measured=(
        "One row per person and day: 43 summaries of heart rate, breathing, steps, sleep and movement"
        " from a wristband and a sensor garment, and an answer to a daily question about stress."
    ),
    label="y = 1: stress on that day above the person's own average.",
    sensitive="Gender, two values, a = 1 for Male.",
    licence="data use agreement with the owners",
    url="https://tiles-data.isi.edu",
    citation=(
        "Mundnich et al. (2020), TILES-2018, a longitudinal physiologic and behavioral data set of"
        " hospital workers, Scientific Data 7."
    ),
    published={
        "records": 1_560,
        "RN-day shift": 707,
        "RN-night shift": 609,
        "CNA": 244,
        "female": 1_200,
        "male": 360,
        "stress y = 1": 735,
    },
    harms=(
        "Stress read from the body of an employee can be used against the employee. Consent to a"
        " study is not consent to monitoring at work.",
        "Which error is worse is not clear: missing a stressed nurse, or marking a calm one.",
    ),
    limits=(
        "Records of one person are not independent, and a random split puts the same person on both sides.",
        "Gender goes with occupation, and the garment differed between men and women.",
        "Three clients and 1,560 rows: always answering 0 is right in 53 percent of them.",
    ),
    decisions=(
        "The file is FAIRFL_DATA/tiles/tiles.csv: columns occupation (RN-day shift, RN-night shift,"
        " CNA), gender (Female, Male), stress (0, 1), and 43 numeric columns; an empty cell takes its"
        " column's mean.",
        "The paper does not say which gender is a = 1. Male is chosen as for Adult.",
    ),
)

TILES_STAND_IN = DataCard(
    title="TILES stand-in (published counts, made-up features)",
    provenance="Generated by this package from the counts in FairFed's Table 8. It holds no record of TILES.",
    measured="One row per record that the table counts; 43 columns of random numbers.",
    label="y = 1: counted as stressed in the table. The features are shifted a little for these rows.",
    sensitive="Gender as counted in the table, a = 1 for Male. The features carry nothing about it.",
    licence="that of this package",
    url="https://tiles-data.isi.edu",
    citation="Counts: Ezzeldin et al. (2023), FairFed, AAAI, Table 8.",
    published=TILES.published,
    harms=("Reading a result on it as one about nurses, stress or gender.",),
    limits=(
        "It can show that a method runs with three unequal clients. It cannot confirm or refute Table 4.",
        "Features are independent of gender, so any gap between genders comes from base rates and chance.",
    ),
    decisions=(
        "The table prints gender and stress counts of each client, not their cross table. They are"
        " made independent inside each client, rounded to whole records.",
        "The distance between the classes is 0.5 standard deviations, so that no model can exceed about .60.",
    ),
)

MNIST = DataCard(
    title="MNIST (handwritten digits)",
    provenance=(
        "Chosen by LeCun, Cortes and Burges in the 1990s from two collections of the US institute of standards (NIST):"
        " digits written by employees of the Census Bureau and by high-school students, mixed so that training and test"
        " images are alike. No writer is in both parts."
    ),
    measured=(
        "One image per digit: 28 by 28 grey pixels, white ink on black. The ink was scaled to fit 20 by 20 pixels and its"
        " centre of mass put in the middle."
    ),
    label="y = 0..9: the digit that the writer was asked for.",
    sensitive=(
        "None. Who wrote a digit is not in these files. RankFF and E2FL make groups of their own: agents or clients whose"
        " images are rotated by the same angle."
    ),
    licence="CC BY-SA 3.0 according to TensorFlow's documentation; the package that carries it is MIT",
    url="https://yann.lecun.com/exdb/mnist/",
    citation=(
        "LeCun, Bottou, Bengio and Haffner (1998), Gradient-based learning applied to document recognition, Proceedings"
        " of the IEEE 86; LeCun, Cortes and Burges (2010), MNIST handwritten digit database."
    ),
    published={"images": 70_000, "training images": 60_000, "test images": 10_000, "classes": 10, "pixels of a side": 28},
    harms=(
        "Reading digits is done on mail, cheques and forms; an error there falls on a person. No error measured here"
        " says how large that risk is.",
        "Agents are equal but for an angle that somebody chose. Calling a model fair to them says nothing about people.",
    ),
    limits=(
        "The digits are those of one country and one decade. Elsewhere a 1 and a 7 are written otherwise.",
        "The task is solved: small convolutional networks are right in 99 percent. What is left over is partly wrong"
        " labels: people confirmed 15 in the test file (Northcutt et al. 2021).",
        "Half a turn leaves a 1 as it is and makes a 9 look like a 6: a model that knows upright digits only takes most"
        " turned nines for sixes.",
        "The ink is centred half a pixel below and to the right of the middle, so half a turn moves it by a whole pixel. A"
        " model can tell a turned image by that, whatever is on it.",
        "The halves of the test file differ. Its makers call the first 5,000 the easier ones; we find the opposite, so"
        " a result on a part of the file depends on which part.",
        "The classes are not equally large: in training 6,742 ones and 5,421 fives.",
    ),
    decisions=(
        "Training images come first, in the order of the files: rows 0 to 59,999, then the test images.",
        "Pixels are kept as they are, 0 to 255, one channel. Scaling belongs to the model.",
        "The images are read from a package on the Python index that carries them as text. Nothing of the package is run.",
    ),
)

CIFAR10 = DataCard(
    title="CIFAR-10 (small photographs)",
    provenance=(
        "Collected by Krizhevsky, Nair and Hinton in Toronto until 2009: photographs out of 80 Million Tiny Images, which"
        " had been gathered by searching the web for nouns, looked at and labelled again by paid students."
    ),
    measured="One image per photograph: 32 by 32 pixels of red, green and blue, with one object that fills much of it.",
    label=(
        "y = 0..9: airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck, as the students judged. No image"
        " is of two classes."
    ),
    sensitive=(
        "None. A few photographs show people beside the object. RankFF makes its own groups: agents whose images are"
        " rotated by the same angle."
    ),
    licence="none stated by the publisher, who asks to be cited; the package that carries it is ISC",
    url="https://www.cs.toronto.edu/~kriz/cifar.html",
    citation="Krizhevsky (2009), Learning multiple layers of features from tiny images, University of Toronto.",
    published={
        "images": 60_000,
        "training images": 50_000,
        "test images": 10_000,
        "training images of each class": 5_000,
        "test images of each class": 1_000,
        "pixels of a side": 32,
    },
    harms=(
        "The photographs were taken from the web without asking anyone. The collection they come from was withdrawn in"
        " 2020 for slurs among its labels and offensive images (Birhane and Prabhu 2021). The labels here are others,"
        " the way of collecting is the same.",
        "Agents are equal but for an angle that somebody chose. Calling a model fair to them says nothing about people.",
    ),
    limits=(
        "Of the test images 3.3 percent have a near copy among the training images (Barz and Denzler 2020). No two"
        " images are equal in every pixel.",
        "People confirmed 54 wrong labels in the test file (Northcutt et al. 2021).",
        "A rotated square leaves its frame: the corners that come in have to be filled, and what goes out is lost. Unlike"
        " MNIST's the pixels there are not black, so a model can see the angle by the corners alone.",
        "Photographs have an up and a down. Few are ever taken at 60 degrees or more, so these agents are a construction.",
    ),
    decisions=(
        "Training images come first, in the order of the archive's five pictures: rows 0 to 49,999, then the test images.",
        "Pixels are kept as they are, 0 to 255, channels red, green, blue. Scaling belongs to the model.",
        "The file is 139 MB. It is downloaded only when the dataset is asked for by name, and never by building the book.",
    ),
)
